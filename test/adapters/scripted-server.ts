import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** Writes the answer, or breaks the connection. */
export type Reply = (response: ServerResponse, request: Received, socket: Socket) => void;

export interface ScriptedServer {
  readonly url: string;
  readonly port: number;
  readonly requests: Received[];
  /** Connections that were ever opened. */
  connections(): number;
  close(): Promise<void>;
}

export const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Reply =>
  (response) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));

/** A server on loopback that answers by script: one reply a request, the last one for all that follow. */
export async function scriptedServer(...replies: Reply[]): Promise<ScriptedServer> {
  const requests: Received[] = [];
  const sockets = new Set<Socket>();
  let opened = 0;
  const server = createServer((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const { method = '', url = '', headers, socket } = incoming;
      const request = { method, url, headers, body: Buffer.concat(chunks).toString() };
      requests.push(request);
      const reply = replies.length > 1 ? replies.shift() : replies[0];
      reply?.(response, request, socket);
    });
  });
  server.on('connection', (socket) => {
    opened += 1;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    connections: () => opened,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((done) => server.close(done));
    },
  };
}
