import { createObjectStore } from '../../src/lib/adapters/s3/index.ts';
import { describeObjectStore } from '../contract/object-store.ts';
import { stackEnvironment } from './stack-environment.ts';

const env = stackEnvironment();
process.env['AWS_ACCESS_KEY_ID'] = env('AWS_ACCESS_KEY_ID');
process.env['AWS_SECRET_ACCESS_KEY'] = env('AWS_SECRET_ACCESS_KEY');
const store = createObjectStore({
  region: env('AWS_REGION'),
  bucket: env('WARREN_BUCKET'),
  endpoint: env('AWS_ENDPOINT_URL_S3'),
  pathStyle: true,
});

describeObjectStore('versitygw', { setup: async () => store, teardown: () => store.close() });
