import * as z from 'zod';
import { OBSERVED_STATES, OPERATION_KINDS, OPERATION_STATUSES, SLOT_STATES } from '../domain/states.ts';
import { userIdFault } from '../domain/user-id.ts';
import { PAGE_DEFAULT, PAGE_MAX } from './cursor.ts';

/** What each API function takes; an unknown field is refused. docs/openapi.json is generated from these. */

const userId = z
  .string()
  .superRefine((id, context) => {
    const message = userIdFault(id);
    if (message !== null) context.addIssue({ code: 'custom', message });
  })
  .meta({
    id: 'UserId',
    description:
      '1–64 code points, NFC, no control, format or surrogate characters, no outer blanks, none of / \\ % ? #, not . or ..',
    example: 'zhangsan',
  });

// Ids that cannot exist are 404 like those that do not: the form is no business of the caller.
const instanceId = z.string().max(128, 'has too many characters').meta({ example: 'inst_01k5b2y8zt3n4w6v7x9qadgkrm' });
const operationId = z.string().max(128, 'has too many characters').meta({ description: 'a UUID' });

const cursor = z.string().max(512, 'is not a next_cursor of this list').optional();
const limit = z.coerce
  .number<string | number>()
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(PAGE_MAX, `must be at most ${PAGE_MAX}`)
  .default(PAGE_DEFAULT);

export const createInput = z.strictObject({
  user_id: userId,
  metadata: z
    .record(z.string(), z.unknown())
    .optional()
    .meta({ description: 'Kept as it is; Warren does not read it' }),
});

export const listInstancesInput = z.strictObject({
  state: z.enum(OBSERVED_STATES).optional().meta({ description: 'observed_state' }),
  shard: z.string().max(10, 'has too many characters').optional().meta({ example: '07' }),
  cursor,
  limit,
});

export const getInstanceInput = z.strictObject({ instance_id: instanceId });
export const historyInput = z.strictObject({ instance_id: instanceId, cursor, limit });

export const listOperationsInput = z.strictObject({
  status: z.enum(OPERATION_STATUSES).optional(),
  kind: z.enum(OPERATION_KINDS).optional(),
  cursor,
  limit,
});

const reason = z.string().max(1000, 'has too many characters');

export const stageInput = z.strictObject({
  instance_id: instanceId,
  backup: z.enum(['required', 'best_effort', 'skip']).default('best_effort').meta({
    description: 'best_effort: a backup that fails is told in history, and staging goes on: the volumes stay',
  }),
  force: z.boolean().default(false).meta({ description: 'running work does not hold it back' }),
  reason: reason.default(''),
});

export const restoreInput = z.strictObject({
  instance_id: instanceId,
  from: z
    .enum(['volumes', 'snapshot', 'slot', 'empty'])
    .default('volumes')
    .meta({
      description:
        'volumes: its own, or the newest snapshot when they are lost; snapshot: on a new slot although they are there; ' +
        'slot: takes the quarantined slot again that a rebuild left, and sets the newer one aside (admin); ' +
        'empty: never without being asked (admin)',
    }),
});

export const retireInput = z.strictObject({
  instance_id: instanceId,
  grace_days: z.number().min(0, 'must be at least 0').max(3650, 'must be at most 3650').optional(),
  waive_backup: reason.min(1, 'must say why').optional().meta({ description: 'why no final snapshot is needed' }),
  reason: reason.default(''),
});

export const unretireInput = z.strictObject({ instance_id: instanceId });
export const snapshotInput = z.strictObject({ instance_id: instanceId, reason: reason.default('') });

const shardId = z.string().max(10, 'has too many characters').meta({ example: '07' });

export const listSlotsInput = z.strictObject({
  state: z.enum(SLOT_STATES).optional(),
  shard: shardId.optional(),
  cursor,
  limit,
});

export const releaseSlotInput = z.strictObject({
  shard_id: shardId,
  pod_index: z.coerce
    .number<string | number>()
    .int('must be a whole number')
    .min(0, 'must be at least 0')
    .max(1_000_000, 'must be at most 1000000')
    .meta({ example: 13 }),
  reason: reason.min(1, 'must say why').meta({ description: 'what was found when the slot was looked at' }),
  waive: reason
    .min(1, 'must say why')
    .optional()
    .meta({ description: 'why its volumes may go although no verified snapshot stands for them' }),
});

export const operationInput = z.strictObject({ operation_id: operationId });

export const routeInput = z.strictObject({ user_id: userId });

/** Seconds that a wake may wait; API Gateway gives up after 30. */
const WAIT_MAX_SECONDS = 20;

export const wakeInput = z.strictObject({
  user_id: userId,
  intent: z.enum(['user', 'background']).meta({ description: 'background never wakes a staged assistant' }),
  wait_seconds: z
    .number()
    .min(0, 'must be at least 0')
    .max(WAIT_MAX_SECONDS, `must be at most ${WAIT_MAX_SECONDS}`)
    .default(0),
  create_if_absent: z.boolean().default(false),
});

const activityEntry = z.strictObject({
  user_id: userId,
  kind: z.enum(['chat', 'task', 'view']).meta({
    description: 'chat and task count as activity; a view (a page that was merely open) is taken and does not',
  }),
  at: z.iso
    .datetime({ offset: true, error: 'must be an RFC 3339 time with its offset' })
    .optional()
    .meta({ description: 'now when absent' }),
});

export type ActivityEntry = z.output<typeof activityEntry>;

export const activityInput = z.strictObject({
  entries: z.array(activityEntry).min(1, 'must have at least one entry').max(1000, 'must have at most 1000 entries'),
});

export const openapiInput = z.strictObject({});
