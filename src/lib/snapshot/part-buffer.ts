/** Kept for later calls: buffers that only wait for the collector would add up to many parts. */
const free: Buffer[] = [];
const MOST_FREE = 2;

/** Runs `work` with a buffer of this size that nobody else uses meanwhile; what is in it does not outlive the call. */
export async function withPartBuffer<T>(size: number, work: (buffer: Buffer) => Promise<T>): Promise<T> {
  const index = free.findIndex(({ length }) => length === size);
  const [kept] = index < 0 ? [] : free.splice(index, 1);
  const buffer = kept ?? Buffer.allocUnsafeSlow(size);
  const result = await work(buffer);
  // Not after a failure: a call that was broken off may still be writing to it.
  if (free.length < MOST_FREE) free.push(buffer);
  return result;
}
