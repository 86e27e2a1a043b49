import { defineConfig } from 'vitest/config';

/** The deep run: each file starts the stack that it needs, and breaks it. */
export default defineConfig({
  test: {
    include: ['test/chaos/**/*.test.ts'],
    pool: 'forks',
    fileParallelism: false,
    testTimeout: 600_000,
    hookTimeout: 300_000,
  },
});
