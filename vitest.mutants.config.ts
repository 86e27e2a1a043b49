import { defineConfig } from 'vitest/config';
import { mutants, mutation } from './test/mutants/mutant.ts';

/** Every mutant is a project of its own: `vitest run --config vitest.mutants.config.ts [--project NAME]`. */
export default defineConfig({
  test: {
    globalSetup: ['test/setup/services.ts'],
    pool: 'forks',
    maxWorkers: 2,
    projects: mutants.map((mutant) => ({
      plugins: [mutation(mutant)],
      test: { name: mutant.name, include: ['test/mutants/found.ts'], hookTimeout: 60_000 },
    })),
  },
});
