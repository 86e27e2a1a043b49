import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Received, Reply } from '../scripted-server.ts';

/** An exchange with a real QwenPaw 2.2.2, as it went over the wire. */
export interface Recorded {
  readonly method: string;
  readonly path: string;
  readonly requestBody: string;
  readonly status: number;
  readonly body: string;
}

/** Reads test/fixtures/qwenpaw/<name>.http: comment, request, response, timings. */
export function recorded(name: string): Recorded {
  const file = join(import.meta.dirname, '..', '..', 'fixtures', 'qwenpaw', `${name}.http`);
  const lines = readFileSync(file, 'utf8').split('\n');
  const begin = lines.findIndex((line) => /^[A-Z]+ \/\S* HTTP\/1\.1/.test(line));
  const answer = lines.findIndex((line, index) => index > begin && line.startsWith('HTTP/1.1 '));
  const [method = '', path = ''] = lines[begin]?.split(' ') ?? [];
  const bodyOf = (part: string[]) =>
    part
      .slice(part.findIndex((line) => line.trim() === '') + 1)
      .filter((line) => !line.startsWith('# '))
      .join('\n')
      .trim();
  return {
    method,
    path,
    requestBody: bodyOf(lines.slice(begin, answer)),
    status: Number(lines[answer]?.split(' ')[1]),
    body: bodyOf(lines.slice(answer)),
  };
}

/** Answers as it was recorded; 404 of the test's own when the request is for something else. */
export const replay =
  (name: string, seen: Received[] = []): Reply =>
  (response, request) => {
    const { method, path, status, body } = recorded(name);
    seen.push(request);
    if (request.method !== method || request.url !== path) {
      response.writeHead(418).end(`${name} is ${method} ${path}, not ${request.method} ${request.url}`);
    } else response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  };
