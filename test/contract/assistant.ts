import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AssistantAddress, AssistantPort } from '../../src/lib/ports.ts';

interface AssistantFixture {
  readonly assistants: AssistantPort;
  /** Where one runs, with this token. */
  readonly running: AssistantAddress;
  readonly token: string;
  /** Where none runs. */
  readonly nowhere: AssistantAddress;
}

interface AssistantSetup {
  readonly setup: () => Promise<AssistantFixture>;
  readonly teardown: () => Promise<void>;
}

/** The contract of AssistantPort. */
export function describeAssistant(name: string, { setup, teardown }: AssistantSetup): void {
  describe(`AssistantPort: ${name}`, () => {
    let on: AssistantFixture;
    beforeAll(async () => {
      on = await setup();
    });
    afterAll(teardown);

    test('its own token is answered, any other is unauthorized', async () => {
      expect(await on.assistants.version(on.running, on.token)).toEqual({ version: expect.stringMatching(/^2\.2\.2/) });
      expect(await on.assistants.version(on.running, 'of a neighbour')).toBe('unauthorized');
      expect(await on.assistants.version(on.running, on.token)).toMatchObject({ version: expect.any(String) });
    });

    test('where none runs, or no address is known yet, it is unreachable', async () => {
      await expect(on.assistants.version(on.nowhere, on.token)).rejects.toMatchObject({
        dependency: 'assistant',
        unreachable: true,
      });
      await expect(on.assistants.version({ ...on.running, pod_ip: null }, on.token)).rejects.toMatchObject({
        unreachable: true,
      });
    });
  });
}
