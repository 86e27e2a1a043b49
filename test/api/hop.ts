import { connect, createServer, type Socket } from 'node:net';

/** A TCP hop before a server that can be taken away: `refuse` breaks connections, `hang` swallows what is sent. */
export interface Hop {
  readonly port: number;
  mode: 'pass' | 'refuse' | 'hang';
  /** Breaks the connections that stand. */
  cut(): void;
  close(): Promise<void>;
}

export async function startHop(target: { host: string; port: number }): Promise<Hop> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    sockets.add(client);
    client.on('close', () => sockets.delete(client)).on('error', () => {});
    if (hop.mode === 'refuse') return void client.destroy();
    if (hop.mode === 'hang') return void client.resume();
    const upstream = connect(target);
    sockets.add(upstream);
    upstream.on('close', () => sockets.delete(upstream)).on('error', () => client.destroy());
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
    upstream.pipe(client);
    client.on('data', (bytes) => {
      if (hop.mode === 'pass') upstream.write(bytes);
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  const hop: Hop = {
    port: address.port,
    mode: 'pass',
    cut,
    close: () => {
      cut();
      return new Promise((done) => server.close(() => done()));
    },
  };
  return hop;
}
