// An open loop: requests leave when their time has come, whether or not earlier ones were answered.
import { setTimeout } from 'node:timers/promises';
import { Agent, request } from 'undici';

export interface Load {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Requests a second, evenly spaced. */
  readonly rate: number;
  readonly seconds: number;
}

export interface Latency {
  readonly calls: number;
  readonly not_200: number;
  readonly per_second: number;
  readonly p50_ms: number;
  readonly p90_ms: number;
  readonly p99_ms: number;
  readonly max_ms: number;
}

/** Keep-alive connections; more than are ever busy at once at the rates that are asked for. */
const CONNECTIONS = 100;

/** Latency counts from the moment a request was due, so that a stall is not left out of the figures. */
export async function openLoop(load: Load): Promise<Latency> {
  const agent = new Agent({ connections: CONNECTIONS });
  const total = Math.round(load.rate * load.seconds);
  const latencies: number[] = [];
  let failures = 0;
  const pending: Promise<void>[] = [];
  const started = performance.now();
  const send = async (due: number) => {
    const status = await request(load.url, { dispatcher: agent, headers: load.headers })
      .then(async ({ statusCode, body }) => {
        await body.dump();
        return statusCode;
      })
      .catch(() => 0);
    latencies.push(performance.now() - due);
    if (status !== 200) failures += 1;
  };
  for (let n = 0; n < total; ) {
    const elapsed = performance.now() - started;
    while (n < total && (n * 1000) / load.rate <= elapsed) {
      pending.push(send(started + (n * 1000) / load.rate));
      n += 1;
    }
    await setTimeout(1);
  }
  await Promise.all(pending);
  const took = performance.now() - started;
  await agent.close();
  const sorted = latencies.toSorted((a, b) => a - b);
  const at = (share: number) => round(sorted[Math.min(total - 1, Math.floor(total * share))] ?? Number.NaN);
  return {
    calls: total,
    not_200: failures,
    per_second: Math.round((total * 1000) / took),
    p50_ms: at(0.5),
    p90_ms: at(0.9),
    p99_ms: at(0.99),
    max_ms: at(1),
  };
}

const round = (milliseconds: number) => Math.round(milliseconds * 10) / 10;
