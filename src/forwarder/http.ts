import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Page {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

export interface PageServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Serves a few pages by path, each made when asked for. @throws Error when the address is taken. */
export async function servePages(
  host: string,
  port: number,
  pages: Readonly<Record<string, () => Page | Promise<Page>>>,
): Promise<PageServer> {
  const server: Server = createServer(async (request, response) => {
    const page = pages[(request.url ?? '').split('?')[0] ?? ''];
    const { status, type, body } =
      page === undefined ? { status: 404, type: 'text/plain', body: 'not found\n' } : await page();
    response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);
  });
  await new Promise<void>((done, failed) => {
    server.once('error', failed);
    server.listen(port, host, done);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}
