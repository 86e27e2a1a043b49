// Writes docs/openapi.json from the zod schemas: node scripts/openapi.ts. A test compares the two.
import { writeFileSync } from 'node:fs';
import * as z from 'zod';
import {
  createDocument,
  type ZodOpenApiHeadersObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiPathsObject,
} from 'zod-openapi';
import { problemSchema } from '../src/lib/api/schemas.ts';
import { API, type ApiOperation, type ResponseHeader } from './openapi-paths.ts';

/** Where the committed document stands. */
export const OPENAPI_FILE = new URL('../docs/openapi.json', import.meta.url);

const HEADERS = {
  'if-none-match': z.string().optional().meta({ description: 'the ETag of an earlier answer' }),
  'idempotency-key': z
    .string()
    .optional()
    .meta({ description: '1–128 visible ASCII characters; kept for 24 hours per caller and endpoint' }),
};

const RESPONSE_HEADERS = {
  ETag: z.string().meta({ description: 'changes with the route, not with the time that is left' }),
  'Cache-Control': z.string().meta({ description: 'how long the answer may be kept' }),
  'Retry-After': z.int().min(1).optional().meta({ description: 'seconds, where waiting helps' }),
  'WWW-Authenticate': z.string().meta({ description: 'Bearer' }),
} satisfies Record<ResponseHeader, z.ZodType>;

/** Codes that say when to ask again. */
const WAITING = /\b(operation_in_flight|rolling_back|capacity_exhausted|registry_unavailable)\b/;

const COMMON_PROBLEMS: Readonly<Record<string, string>> = {
  '400': 'invalid_request, malformed_json',
  '401': 'token_missing, token_invalid, token_expired',
  '413': 'body_too_large',
  '500': 'internal_error',
  '503': 'registry_unavailable',
};

/** The OpenAPI 3.1 document as it is committed, with a newline at its end. */
export function openapiText(): string {
  const paths: ZodOpenApiPathsObject = {};
  for (const operation of API)
    paths[operation.path] = { ...paths[operation.path], [operation.method]: describe(operation) };
  const document = createDocument({
    openapi: '3.1.0',
    info: {
      title: 'Warren',
      version: '1',
      description:
        'A private, long-lived assistant for every employee. Problems follow RFC 9457 and carry a stable code.',
    },
    security: [{ bearer: [] }],
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } },
    paths,
  });
  return `${JSON.stringify(document, null, 2)}\n`;
}

function describe(operation: ApiOperation): ZodOpenApiOperationObject {
  const inPath = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const split = Object.entries(operation.input.shape).map(([name, schema]) => ({
    name,
    schema,
    path: inPath.includes(name),
  }));
  const path = z.object(
    Object.fromEntries(split.filter((field) => field.path).map(({ name, schema }) => [name, schema])),
  );
  const rest = Object.fromEntries(split.filter((field) => !field.path).map(({ name, schema }) => [name, schema]));
  const hasRest = Object.keys(rest).length > 0;
  const header = z.object(Object.fromEntries((operation.headers ?? []).map((name) => [name, HEADERS[name]])));
  return {
    operationId: operation.name,
    summary: operation.summary,
    requestParams: {
      ...(inPath.length > 0 && { path }),
      ...(operation.method === 'get' && hasRest && { query: z.object(rest) }),
      ...(operation.headers !== undefined && { header }),
    },
    ...(operation.method === 'post' &&
      hasRest && {
        requestBody: { required: true, content: { 'application/json': { schema: z.strictObject(rest) } } },
      }),
    responses: { ...answersOf(operation), ...problemsOf(operation) },
  };
}

function answersOf({ answers }: ApiOperation): ZodOpenApiOperationObject['responses'] {
  return Object.fromEntries(
    Object.entries(answers).map(([status, { description, schema, headers = [] }]) => [
      status,
      {
        description,
        ...headersOf(headers),
        ...(schema !== undefined && { content: { 'application/json': { schema } } }),
      },
    ]),
  );
}

function headersOf(names: readonly ResponseHeader[]): { headers?: ZodOpenApiHeadersObject } {
  if (names.length === 0) return {};
  return { headers: z.object(Object.fromEntries(names.map((name) => [name, RESPONSE_HEADERS[name]]))) };
}

function problemsOf({ problems, problemHeaders = [] }: ApiOperation): ZodOpenApiOperationObject['responses'] {
  const codes: Record<string, string> = { ...COMMON_PROBLEMS };
  for (const [status, more] of Object.entries(problems)) {
    codes[status] = codes[status] === undefined ? more : `${more}, ${codes[status]}`;
  }
  return Object.fromEntries(
    Object.entries(codes).map(([status, description]) => [
      status,
      {
        description,
        ...headersOf([
          ...problemHeaders,
          ...(WAITING.test(description) ? (['Retry-After'] as const) : []),
          ...(status === '401' ? (['WWW-Authenticate'] as const) : []),
        ]),
        content: { 'application/problem+json': { schema: problemSchema } },
      },
    ]),
  );
}

if (import.meta.main) writeFileSync(OPENAPI_FILE, openapiText());
