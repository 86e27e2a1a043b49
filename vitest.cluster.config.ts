import { defineConfig } from 'vitest/config';

/** Tests that share one real stack, one file after another; each file ends with the oracle. */
export default defineConfig({
  test: {
    include: ['test/cluster/**/*.test.ts'],
    globalSetup: ['test/cluster/setup.ts'],
    pool: 'forks',
    fileParallelism: false,
    testTimeout: 100_000,
    hookTimeout: 150_000,
  },
});
