import { OutsideError } from '../../errors.ts';
import type { Database } from '../../ports.ts';

/**
 * The same database for callers that cannot wait: a server that vanished without a word answers nothing, not even a
 * refusal, and no call waits for it longer than `milliseconds`. What is still under way ends by itself; whether it was
 * committed is as unknown as when a connection breaks.
 */
export function impatient(db: Database, milliseconds: number): Database {
  return {
    query: (text, values) => within(db.query(text, values), milliseconds),
    tx: (work) => within(db.tx(work), milliseconds),
    close: () => db.close(),
  };
}

async function within<T>(answer: Promise<T>, milliseconds: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const message = `PostgreSQL did not answer within ${milliseconds} ms`;
    timer = setTimeout(() => reject(new OutsideError('postgres', message, { unreachable: true })), milliseconds);
  });
  // Nobody is left to hear of what ends after its time.
  answer.catch(() => {});
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
