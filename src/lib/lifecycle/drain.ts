import type { OperationRow } from '../saga/rows.ts';
import { done, fail, type Outcome, type Step } from '../saga/step.ts';
import { workIfAnswered } from './work.ts';

const LOOK_MS = 2_000;

/** Whether a person or a wave insists: work that runs does not hold it back. */
const forced = ({ operation }: { readonly operation: Pick<OperationRow, 'input'> }): boolean =>
  operation.input['force'] === true;

/** Before anything is touched: an assistant that works is not parked, nor one that does not say. */
export const idle: Step = {
  name: 'idle',
  touches: 'nothing',
  when: (operation) => !forced({ operation }),
  async run(context) {
    const work = await workIfAnswered(context);
    if (work === null)
      return fail('assistant_silent', 'the assistant does not say whether it works; force stages it all the same');
    if (work.running.length > 0) return fail('assistant_busy', work.running.join('; '));
    return done({ detail: 'nothing runs' });
  },
};

/**
 * After nobody new is sent there: waits as long as a route may be cached, then until nothing runs. What runs on past
 * the bound undoes an unforced stage; a forced one, and a retire, go on.
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
    const work = await workIfAnswered(context);
    if (work !== null && work.running.length === 0) return done({ detail: 'nothing runs' });
    const what = work === null ? 'the assistant does not answer' : work.running.join('; ');
    if (lasted < limits.drain_max_seconds * 1000) return { kind: 'look', after_ms: LOOK_MS, detail: what, state };
    if (forced(context) || onBound === 'go_on') return done({ detail: `goes on although ${what}` });
    return fail('assistant_busy', `still after ${limits.drain_max_seconds} s: ${what}`);
  },
});
