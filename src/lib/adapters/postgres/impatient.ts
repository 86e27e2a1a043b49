import { OutsideError } from '../../errors.ts';
import type { Database } from '../../ports.ts';

export interface Patience {
  /** How long a server may be silent. */
  readonly milliseconds: number;
  /** Calls at once: as many as the pool has connections, so that its own queue stays empty. */
  readonly concurrency: number;
}

/**
 * The same database for callers that cannot wait: a server that vanished without a word answers nothing, not even a
 * refusal, and no call waits for it longer than that. What is still under way ends by itself; whether it was committed
 * is as unknown as when a connection breaks.
 *
 * Waiting for one's turn is another matter. Where many requests share one process and its one connection (the local
 * stack), a call may wait as long as those before it are answered; only silence ends its patience.
 */
export function impatient(db: Database, patience: Patience): Database {
  const turns = turnstile(patience);
  const call = async <T>(work: () => Promise<T>): Promise<T> => {
    const left = await turns.enter();
    const answer = work();
    // The connection is busy until the work itself ends, however long anybody waits for it.
    answer.then(turns.succeeded, turns.failed);
    return within(answer, left, patience.milliseconds);
  };
  return {
    query: (text, values) => call(() => db.query(text, values)),
    tx: (work) => call(() => db.tx(work)),
    close: () => db.close(),
  };
}

interface Turnstile {
  /** Resolves to the milliseconds of patience that are left. @throws OutsideError when nothing was answered for too long. */
  enter(): Promise<number>;
  succeeded(): void;
  failed(): void;
}

function turnstile({ milliseconds, concurrency }: Patience): Turnstile {
  const queue: (() => void)[] = [];
  let busy = 0;
  let answeredAt = 0;
  const leave = () => {
    const next = queue.shift();
    if (next === undefined) busy -= 1;
    else next();
  };
  const waitForTurn = () =>
    new Promise<number>((resolve, reject) => {
      const since = performance.now();
      let timer: NodeJS.Timeout | undefined;
      const left = () => milliseconds - (performance.now() - Math.max(since, answeredAt));
      const turn = () => {
        clearTimeout(timer);
        resolve(left());
      };
      const look = () => {
        if (left() > 0) {
          timer = setTimeout(look, left());
          return;
        }
        queue.splice(queue.indexOf(turn), 1);
        reject(silence(milliseconds));
      };
      queue.push(turn);
      look();
    });
  return {
    async enter() {
      if (busy >= concurrency) return waitForTurn();
      busy += 1;
      return milliseconds;
    },
    succeeded() {
      answeredAt = performance.now();
      leave();
    },
    failed: leave,
  };
}

async function within<T>(answer: Promise<T>, left: number, milliseconds: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(silence(milliseconds)), left);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

const silence = (milliseconds: number) =>
  new OutsideError('postgres', `PostgreSQL did not answer within ${milliseconds} ms`, { unreachable: true });
