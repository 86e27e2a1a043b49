/**
 * SHA-256 (FIPS 180-4) whose state can be written down and gone on with in another process, which Node's cannot. About a
 * tenth of its speed: used only where a hash spans functions (docs/decisions/0010).
 */
export class ResumableSha256 {
  readonly #words: Int32Array;
  #length: number;
  /** What is left over of the last update. */
  #tail: Uint8Array = new Uint8Array(0);

  private constructor(words: Int32Array, length: number) {
    this.#words = words;
    this.#length = length;
  }

  static start(): ResumableSha256 {
    return new ResumableSha256(Int32Array.from(INITIAL), 0);
  }

  /** Goes on from what {@link save} gave. @throws RangeError for anything else. */
  static resume(saved: string): ResumableSha256 {
    const match = /^([0-9a-f]{64})@(\d+)$/.exec(saved);
    if (match?.[1] === undefined) throw new RangeError(`not a saved hash: ${saved}`);
    const bytes = Buffer.from(match[1], 'hex');
    const words = Int32Array.from({ length: 8 }, (_, index) => bytes.readInt32BE(index * 4));
    return new ResumableSha256(words, Number(match[2]));
  }

  /** Bytes hashed so far. */
  get length(): number {
    return this.#length;
  }

  /** @throws RangeError when an earlier update was not of whole blocks of 64 bytes: only the last one may be. */
  update(bytes: Uint8Array): this {
    if (this.#length % 64 !== 0) throw new RangeError('only the last bytes may be less than a block');
    const whole = bytes.length - (bytes.length % 64);
    compress(this.#words, bytes.subarray(0, whole));
    this.#tail = bytes.slice(whole);
    this.#length += bytes.length;
    return this;
  }

  /** @throws RangeError when the last update was not of whole blocks. */
  save(): string {
    if (this.#length % 64 !== 0) throw new RangeError('a hash is saved between blocks only');
    return `${this.#hex()}@${this.#length}`;
  }

  /** Lower-case hex. Nothing can be added afterwards. */
  digest(): string {
    const rest = this.#tail.length;
    const last = new Uint8Array(rest < 56 ? 64 : 128);
    last.set(this.#tail);
    last[rest] = 0x80;
    new DataView(last.buffer).setBigUint64(last.length - 8, BigInt(this.#length) * 8n);
    compress(this.#words, last);
    return this.#hex();
  }

  #hex(): string {
    const bytes = Buffer.alloc(32);
    for (const [index, word] of this.#words.entries()) bytes.writeInt32BE(word, index * 4);
    return bytes.toString('hex');
  }
}

const PRIMES = ((): number[] => {
  const found: number[] = [];
  for (let n = 2; found.length < 64; n += 1) if (found.every((prime) => n % prime !== 0)) found.push(n);
  return found;
})();
/** The first 32 bits of a number's fraction. */
const fraction = (value: number): number => ((value - Math.floor(value)) * 2 ** 32) | 0;
const INITIAL = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const ROUND = Int32Array.from(PRIMES, (prime) => fraction(Math.cbrt(prime)));
const schedule = new Int32Array(64);

/** Hashes whole blocks into the words. The names are the standard's; reads of typed arrays are in range throughout. */
function compress(words: Int32Array, bytes: Uint8Array): void {
  const at = (array: Int32Array, index: number): number => array[index] as number;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let block = 0; block < bytes.length; block += 64) {
    for (let i = 0; i < 16; i += 1) schedule[i] = view.getInt32(block + i * 4);
    for (let i = 16; i < 64; i += 1) {
      const x = at(schedule, i - 15);
      const y = at(schedule, i - 2);
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      schedule[i] = (at(schedule, i - 16) + s0 + at(schedule, i - 7) + s1) | 0;
    }
    let a = at(words, 0);
    let b = at(words, 1);
    let c = at(words, 2);
    let d = at(words, 3);
    let e = at(words, 4);
    let f = at(words, 5);
    let g = at(words, 6);
    let h = at(words, 7);
    for (let i = 0; i < 64; i += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + at(ROUND, i) + at(schedule, i)) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    words[0] = (at(words, 0) + a) | 0;
    words[1] = (at(words, 1) + b) | 0;
    words[2] = (at(words, 2) + c) | 0;
    words[3] = (at(words, 3) + d) | 0;
    words[4] = (at(words, 4) + e) | 0;
    words[5] = (at(words, 5) + f) | 0;
    words[6] = (at(words, 6) + g) | 0;
    words[7] = (at(words, 7) + h) | 0;
  }
}
