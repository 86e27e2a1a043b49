// Ports: the ones of the last start when they are free (so that addresses stay), otherwise free ones.
import { createServer } from 'node:net';
import { PORT_NAMES, type PortName } from './options.ts';

/** A number for each port of the stack. */
export type Ports = Record<PortName, number>;

/** Below the range from which the kernel gives ports to outgoing connections, so that a killed part gets its port back. */
const LOWEST = 20_000;
const HIGHEST = 31_000;

/** What a part takes besides its port: Nacos opens three more at fixed distances. */
const NEIGHBOURS: Partial<Record<PortName, readonly number[]>> = { nacos: [-1000, 1000, 1001] };

/** Whether nothing listens on this port of 127.0.0.1. */
async function isFree(port: number): Promise<boolean> {
  if (port < 1 || port > 65_535) return false;
  return await new Promise((done) => {
    const server = createServer();
    server.once('error', () => done(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => done(true)));
  });
}

/**
 * Chooses all ports. A port that was asked for must be free (throws with its name otherwise).
 * @param random a number from 0 to 1, as Math.random gives
 */
export async function choosePorts(
  asked: Partial<Ports>,
  previous: Partial<Ports>,
  random: () => number,
  free: (port: number) => Promise<boolean> = isFree,
): Promise<Ports> {
  const taken = new Set<number>();
  const usable = async (name: PortName, port: number) => {
    const all = [port, ...(NEIGHBOURS[name] ?? []).map((distance) => port + distance)];
    if (all.some((each) => taken.has(each))) return false;
    for (const each of all) if (!(await free(each))) return false;
    for (const each of all) taken.add(each);
    return true;
  };
  const ports: Partial<Ports> = {};
  for (const name of PORT_NAMES) {
    const port = asked[name];
    if (port === undefined) continue;
    if (!(await usable(name, port)))
      throw new Error(`--port ${name}=${port}: it is not free, or one of its neighbours is not`);
    ports[name] = port;
  }
  const complete = { ...ports } as Ports;
  for (const name of PORT_NAMES) {
    if (complete[name] !== undefined) continue;
    let port = previous[name] ?? 0;
    while (port === 0 || !(await usable(name, port))) port = LOWEST + Math.floor(random() * (HIGHEST - LOWEST));
    complete[name] = port;
  }
  return complete;
}
