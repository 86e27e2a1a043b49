import { OutsideError } from '../errors.ts';
import type { OperationRow } from '../saga/rows.ts';
import { done, fail, type Outcome, type Step, type StepContext } from '../saga/step.ts';
import { workUnlessSilent } from './work.ts';

const LOOK_MS = 2_000;

/** Whether a person or a wave insists: work that runs does not hold it back. */
const forced = ({ operation }: { readonly operation: Pick<OperationRow, 'input'> }): boolean =>
  operation.input['force'] === true;

/** Before anything is touched: an assistant that works is not parked, nor one that does not say, or refuses to. */
export const idle: Step = {
  name: 'idle',
  touches: 'nothing',
  when: (operation) => !forced({ operation }),
  async run(context) {
    const work = await workUnlessSilent(context);
    if (work === null)
      return fail('assistant_silent', 'the assistant does not say whether it works; force stages it all the same');
    if (work.running.length > 0) return fail('assistant_busy', work.running.join('; '));
    return done({ detail: 'nothing runs' });
  },
};

/**
 * After nobody new is sent there: waits as long as a route may be cached, then until nothing runs. What runs on past
 * the bound undoes an unforced stage; a forced one, and a retire, go on. So they do when the assistant refuses to say;
 * an unforced stage fails with its words at once.
 */
export const drain = (onBound: 'fail' | 'go_on'): Step => ({
  name: 'drain',
  touches: 'nothing',
  async run(context): Promise<Outcome> {
    const { now, limits, operation, slot } = context;
    if (slot?.pod_uid === null) return done({ detail: 'nothing runs: no pod is bound' });
    const since = operation.state.drain_since === undefined ? now : new Date(operation.state.drain_since);
    const lasted = now.getTime() - since.getTime();
    const state = { drain_since: since.toISOString() };
    const routes = limits.drain_seconds * 1000 - lasted;
    if (routes > 0) return { kind: 'look', after_ms: routes, detail: 'until no route leads here any more', state };
    const goesOn = forced(context) || onBound === 'go_on';
    const what = await holdingBack(context, goesOn);
    if (what === null) return done({ detail: 'nothing runs' });
    if (lasted < limits.drain_max_seconds * 1000) return { kind: 'look', after_ms: LOOK_MS, detail: what, state };
    if (goesOn) return done({ detail: `goes on although ${what}` });
    return fail('assistant_busy', `still after ${limits.drain_max_seconds} s: ${what}`);
  },
});

/** What a drain waits for, in words; null when nothing runs. @throws OutsideError of a refusal, unless it goes on anyway. */
async function holdingBack(context: StepContext, goesOn: boolean): Promise<string | null> {
  try {
    const work = await workUnlessSilent(context);
    if (work === null) return 'the assistant does not answer';
    return work.running.length === 0 ? null : work.running.join('; ');
  } catch (error) {
    if (goesOn && error instanceof OutsideError) return `the assistant refuses to say: ${error.message}`;
    throw error;
  }
}
