import type { Operation } from './stage.ts';

/** Milliseconds between two times of an operation's timeline. */
const between = (from: string, to: string | null): string =>
  to === null ? '…' : `${new Date(to).getTime() - new Date(from).getTime()} ms`;

export const headline = (text: string): void => console.log(`\n── ${text}`);

/** The timeline of an operation: each step, how long it took, what it found. */
export function timeline(title: string, operation: Operation): void {
  console.log(`${title}: ${operation.status}${operation.error ? ` (${operation.error.message})` : ''}`);
  for (const step of operation.steps) {
    const name = step.direction === 'undo' ? `undo ${step.step}` : step.step;
    console.log(
      `  ${name.padEnd(14)}${between(step.started_at, step.finished_at).padStart(9)}  ${step.detail ?? step.outcome ?? ''}`,
    );
  }
}

/** The same fact in several places, one line a place. */
export function sideBySide(rows: Readonly<Record<string, string>>): void {
  for (const [place, text] of Object.entries(rows)) console.log(`  ${place.padEnd(12)} ${text}`);
}
