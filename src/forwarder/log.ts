type Level = 'info' | 'warn' | 'error';
/** One line of the log: a sentence, and fields to search by. */
export type Log = (level: Level, message: string, fields?: Readonly<Record<string, unknown>>) => void;

/** JSON lines on standard output. */
export const jsonLog =
  (now: () => number): Log =>
  (level, message, fields = {}) => {
    process.stdout.write(`${JSON.stringify({ at: new Date(now()).toISOString(), level, message, ...fields })}\n`);
  };
