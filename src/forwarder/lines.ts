/** Longest line taken: an object in etcd is at most 1.5 MB, JSON with managedFields and escapes is some larger. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;
const NEWLINE = 0x0a;

/**
 * Cuts a stream of bytes into lines. Works on bytes, so that a chunk may end inside a character of several bytes.
 * Empty lines are left out; what follows the last newline is kept for the next chunk.
 */
export class LineSplitter {
  #rest: Uint8Array[] = [];
  #restBytes = 0;
  readonly #maxLineBytes: number;

  constructor(maxLineBytes: number = MAX_LINE_BYTES) {
    this.#maxLineBytes = maxLineBytes;
  }

  /** @throws RangeError when a line does not end within the limit (the other side does not speak our protocol). */
  push(chunk: Uint8Array): string[] {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      this.#keep(chunk.subarray(start, end));
      const line = Buffer.concat(this.#rest, this.#restBytes).toString('utf8');
      if (line.length > 0) lines.push(line);
      this.#rest = [];
      this.#restBytes = 0;
      start = end + 1;
    }
    this.#keep(chunk.subarray(start));
    return lines;
  }

  #keep(part: Uint8Array): void {
    if (part.length === 0) return;
    this.#restBytes += part.length;
    if (this.#restBytes > this.#maxLineBytes) {
      throw new RangeError(`a line of the watch is longer than ${this.#maxLineBytes} bytes`);
    }
    this.#rest.push(part);
  }
}
