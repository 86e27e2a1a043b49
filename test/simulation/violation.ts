/** An invariant of Warren was broken. */
export class Violation extends Error {
  override readonly name = 'Violation';
}

export function must(holds: boolean, invariant: string, what: () => string): void {
  if (!holds) throw new Violation(`${invariant}: ${what()}`);
}
