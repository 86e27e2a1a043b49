import * as z from 'zod';
import { OBSERVED_STATES, OPERATION_KINDS, OPERATION_STATUSES, ROUTE_STATES, SLOT_STATES } from '../domain/states.ts';

/** What the API answers. docs/openapi.json is generated from these; shapes.ts fills them. */

const time = z.iso.datetime();
const optionalTime = time.nullable();

export const instanceSchema = z
  .object({
    instance_id: z.string(),
    user_id: z.string(),
    desired_state: z.enum(['active', 'staged', 'retired']),
    observed_state: z.enum(OBSERVED_STATES),
    observed_reason: z.string().nullable(),
    shard_id: z.string(),
    pod_index: z.int(),
    pod_dns: z.string().nullable(),
    image_ref: z.string().nullable(),
    revision: z.int(),
    created_at: time,
    updated_at: time,
    last_active_at: optionalTime,
    registered_at: optionalTime,
    retired_at: optionalTime,
    purge_after: optionalTime,
    snapshot_ref: z.string().nullable(),
    metadata: z.record(z.string(), z.unknown()),
    operation_id: z.string().optional().meta({ description: 'the operation in flight' }),
  })
  .meta({ id: 'Instance' });

const fault = z.object({ code: z.string(), message: z.string() });

const stepSchema = z.object({
  step: z.string(),
  direction: z.literal('undo').optional().meta({ description: 'absent while the operation goes forward' }),
  attempt: z.int(),
  started_at: time,
  finished_at: optionalTime,
  outcome: z.string().nullable(),
  detail: z.string().optional(),
  error: fault.optional(),
});

const eta = {
  eta_seconds: z.number().optional().meta({ description: 'median of the time that is left, to tenths' }),
  eta_p90_seconds: z.number().optional(),
};

export const operationSchema = z
  .object({
    operation_id: z.uuid(),
    subject: z.string(),
    instance_id: z.string().optional(),
    kind: z.enum(OPERATION_KINDS),
    status: z.enum(OPERATION_STATUSES),
    step: z.string(),
    attempt: z.int(),
    actor: z.string(),
    reason: z.string().nullable(),
    created_at: time,
    deadline_at: time,
    finished_at: optionalTime,
    error: fault.optional(),
    ...eta,
    queue_position: z.int().optional().meta({ description: 'while it waits for a place; 1 goes next' }),
    steps: z.array(stepSchema),
  })
  .meta({ id: 'Operation' });

export const routeSchema = z
  .object({
    user_id: z.string(),
    instance_id: z.string(),
    state: z.enum(ROUTE_STATES),
    endpoint: z
      .object({ dns: z.string(), ip: z.string().nullable(), port: z.int(), url: z.string() })
      .optional()
      .meta({ description: 'present when the state is active' }),
    token: z.string().optional().meta({ description: 'the bearer token this assistant accepts, and no other does' }),
    ...eta,
    operation_id: z.string().optional(),
    reason: z.string().optional().meta({ description: 'why it is not active' }),
    next: z.enum(['wait', 'wake', 'operator']).optional().meta({
      description: 'what gets it on: time alone, POST /v1/wake, or a person',
    }),
  })
  .meta({ id: 'Route' });

export const historyEntrySchema = z
  .object({
    subject: z.string(),
    seq: z.int(),
    at: time,
    actor: z.string(),
    role: z.string(),
    action: z.string(),
    before: z.record(z.string(), z.unknown()).nullable(),
    after: z.record(z.string(), z.unknown()).nullable(),
    operation_id: z.string().optional(),
    hash: z.string(),
  })
  .meta({ id: 'HistoryEntry' });

export const slotSchema = z
  .object({
    shard_id: z.string(),
    pod_index: z.int(),
    state: z.enum(SLOT_STATES),
    instance_id: z.string().nullable().meta({ description: 'whose it is, or was before it was set aside' }),
    reason: z.string().nullable().meta({ description: 'why it was quarantined' }),
    pod_uid: z.string().nullable(),
    adopted_at: optionalTime.meta({ description: 'since when somebody was active on its volumes' }),
    volumes: z.array(
      z.object({ template: z.string(), name: z.string(), uid: z.string(), volume_name: z.string().nullable() }),
    ),
  })
  .meta({ id: 'Slot' });

export const commandSchema = z
  .object({ instance: instanceSchema.nullable(), operation: operationSchema.nullable() })
  .meta({ id: 'CommandResult' });

export const activitySchema = z
  .object({
    accepted: z.int(),
    ignored: z.array(z.object({ index: z.int(), code: z.enum(['no_instance', 'future']) })),
  })
  .meta({ id: 'ActivityResult' });

export const problemSchema = z
  .object({
    type: z.string().meta({ example: 'urn:warren:problem:no_instance' }),
    title: z.string(),
    status: z.int(),
    code: z.string(),
    detail: z.string(),
    instance_id: z.string().optional(),
    operation_id: z.string().optional(),
    errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: 'Problem', description: 'RFC 9457' });

export type InstanceShape = z.output<typeof instanceSchema>;
export type OperationShape = z.output<typeof operationSchema>;
export type RouteShape = z.output<typeof routeSchema>;
export type HistoryEntryShape = z.output<typeof historyEntrySchema>;
export type SlotShape = z.output<typeof slotSchema>;
export type CommandShape = z.output<typeof commandSchema>;
export type ActivityShape = z.output<typeof activitySchema>;
