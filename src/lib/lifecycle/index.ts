import type { OperationKind } from '../domain/states.ts';
import type { Saga } from '../saga/step.ts';
import { create } from './create.ts';
import { grow } from './grow.ts';
import { rebind } from './rebind.ts';
import { recycle } from './recycle.ts';
import { warmUp } from './warm-up.ts';

/** What the step handler runs. */
export const stepSagas: ReadonlyMap<OperationKind, Saga> = new Map(
  [create, rebind, grow, warmUp].map((saga) => [saga.kind, saga]),
);

/** What the recycle handler runs, with the one identity that may delete claims. */
export const recycleSagas: ReadonlyMap<OperationKind, Saga> = new Map([[recycle.kind, recycle]]);
