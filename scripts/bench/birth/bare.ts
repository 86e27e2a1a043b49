// The mechanism alone, with everything of Warren's stopped: one PATCH that opens a gate, one watch that sees Ready.
import type pg from 'pg';
import { stopPart } from '../../stack/client.ts';
import { bareSide as mover } from '../life/bare.ts';
import type { Need } from '../measure/stack.ts';
import type { Side } from './side.ts';

const WARRENS = ['poller', 'functions', 'forwarder', 'nacos', 'sqs'] as const;

export async function bareSide(need: Need, db: pg.Pool): Promise<Side> {
  const { rows: slots } = await db.query<{ pod: string }>(
    `select 'qwenpaw-shard-' || shard_id || '-' || pod_index as pod from slot where state = 'warm' order by pod_index, shard_id`,
  );
  for (const part of WARRENS) await stopPart(part);
  const move = mover(need('KUBECONFIG'));
  return {
    create: (rate, count) => move.move('restore', slots.splice(0, count), rate),
    close: () => move.close(),
  };
}
