import type { OperationKind } from '../domain/states.ts';
import type { Saga } from '../saga/step.ts';
import { create } from './create.ts';
import { grow } from './grow.ts';
import { purge } from './purge.ts';
import { rebind } from './rebind.ts';
import { recycle } from './recycle.ts';
import { restore } from './restore.ts';
import { retire } from './retire.ts';
import { snapshot } from './snapshot.ts';
import { stage } from './stage.ts';
import { warmUp } from './warm-up.ts';

/** What the step handler runs. */
export const stepSagas: ReadonlyMap<OperationKind, Saga> = new Map(
  [create, stage, restore, retire, purge, snapshot, rebind, grow, warmUp].map((saga) => [saga.kind, saga]),
);

/** What the recycle handler runs, with the one identity that may delete claims. */
export const recycleSagas: ReadonlyMap<OperationKind, Saga> = new Map([[recycle.kind, recycle]]);
