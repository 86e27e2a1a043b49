/** One JSON line on stdout or stderr for each thing worth telling; CloudWatch and any log shipper parse it. */
type Fields = Readonly<Record<string, unknown>>;

const line = (level: string, message: string, fields: Fields): string =>
  JSON.stringify({ level, message, ...fields }, (_key, value: unknown) =>
    value instanceof Error ? describeError(value) : value,
  );

/** What a log needs of an error, its causes included. */
function describeError(error: Error): Fields {
  return { ...error, name: error.name, message: error.message, stack: error.stack, cause: error.cause };
}

export const log = {
  info: (message: string, fields: Fields = {}): void => console.log(line('info', message, fields)),
  warn: (message: string, fields: Fields = {}): void => console.warn(line('warn', message, fields)),
  error: (message: string, fields: Fields = {}): void => console.error(line('error', message, fields)),
};
