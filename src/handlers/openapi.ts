import document from '../../docs/openapi.json' with { type: 'json' };
import { apiFunction } from '../lib/api/function.ts';
import { openapiInput } from '../lib/api/inputs.ts';

/** GET /v1/openapi.json: the committed document, part of the bundle. */
export const handler = apiFunction({
  name: 'openapi',
  input: openapiInput,
  run: async () => ({ status: 200, body: document, headers: { 'cache-control': 'private, max-age=300' } }),
});
