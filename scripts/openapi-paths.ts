import * as z from 'zod';
import {
  activityInput,
  createInput,
  getInstanceInput,
  historyInput,
  listInstancesInput,
  listOperationsInput,
  listSlotsInput,
  openapiInput,
  operationInput,
  releaseSlotInput,
  restoreInput,
  retireInput,
  routeInput,
  snapshotInput,
  stageInput,
  unretireInput,
  wakeInput,
} from '../src/lib/api/inputs.ts';
import {
  activitySchema,
  commandSchema,
  historyEntrySchema,
  instanceSchema,
  operationSchema,
  routeSchema,
  slotSchema,
} from '../src/lib/api/schemas.ts';

/** One operation of the API as docs/openapi.json tells of it. */
export interface ApiOperation {
  /** The function's name in serverless.yml. */
  readonly name: string;
  readonly method: 'get' | 'post';
  readonly path: string;
  readonly summary: string;
  readonly input: z.ZodObject;
  /** What succeeds, by status. */
  readonly answers: Readonly<Record<string, { readonly description: string; readonly schema?: z.ZodType }>>;
  /** Problems beyond 400, 401, 413, 500 and 503, which every operation may answer. */
  readonly problems: Readonly<Record<string, string>>;
  readonly headers?: readonly ('if-none-match' | 'idempotency-key')[];
}

const listOf = (item: z.ZodType) =>
  z.object({
    items: z.array(item),
    next_cursor: z.string().optional().meta({ description: 'absent on the last page' }),
  });

const shown = (schema: z.ZodType) => ({ '200': { description: 'what was asked for', schema } });
const noInstance = { '404': 'instance_not_found' };
const noOperation = { '404': 'operation_not_found' };

/** Every operation, in the order of the document. */
export const API: readonly ApiOperation[] = [
  {
    name: 'route',
    method: 'get',
    path: '/v1/route',
    summary: 'Where a user’s assistant answers now',
    input: routeInput,
    answers: {
      '200': { description: 'the route of a live instance, whatever its state', schema: routeSchema },
      '304': { description: 'the ETag still holds' },
    },
    problems: { '404': 'no_instance', '410': 'instance_retired' },
    headers: ['if-none-match'],
  },
  {
    name: 'wake',
    method: 'post',
    path: '/v1/wake',
    summary: 'Gets a user’s assistant to answer, waiting for it if asked',
    input: wakeInput,
    answers: {
      '200': { description: 'it is active', schema: routeSchema },
      '202': { description: 'it is on its way; ask again after Retry-After', schema: routeSchema },
    },
    problems: {
      '404': 'no_instance',
      '409': 'instance_failed, rolling_back, capacity_exhausted',
      '410': 'instance_retired',
    },
    headers: ['idempotency-key'],
  },
  {
    name: 'create',
    method: 'post',
    path: '/v1/instances',
    summary: 'Gives a user an assistant',
    input: createInput,
    answers: {
      '200': { description: 'the user’s instance already lives', schema: commandSchema },
      '202': { description: 'accepted, or accepted before and under way', schema: commandSchema },
    },
    problems: { '409': 'idempotency_key_reused, operation_in_flight, rolling_back', '503': 'capacity_exhausted' },
    headers: ['idempotency-key'],
  },
  {
    name: 'listInstances',
    method: 'get',
    path: '/v1/instances',
    summary: 'Instances, newest first',
    input: listInstancesInput,
    answers: shown(listOf(instanceSchema)),
    problems: {},
  },
  {
    name: 'getInstance',
    method: 'get',
    path: '/v1/instances/{instance_id}',
    summary: 'One instance',
    input: getInstanceInput,
    answers: shown(instanceSchema),
    problems: noInstance,
  },
  {
    name: 'history',
    method: 'get',
    path: '/v1/instances/{instance_id}/history',
    summary: 'All that happened to an instance, oldest first',
    input: historyInput,
    answers: shown(listOf(historyEntrySchema)),
    problems: noInstance,
  },
  {
    name: 'stage',
    method: 'post',
    path: '/v1/instances/{instance_id}/stage',
    summary: 'Parks an active assistant',
    input: stageInput,
    answers: { '202': { description: 'accepted, or accepted before and under way', schema: commandSchema } },
    problems: { ...noInstance, '409': 'not_stageable, operation_in_flight, rolling_back' },
    headers: ['idempotency-key'],
  },
  {
    name: 'restore',
    method: 'post',
    path: '/v1/instances/{instance_id}/restore',
    summary: 'Wakes a staged assistant, or brings a failed one back',
    input: restoreInput,
    answers: { '202': { description: 'accepted, or accepted before and under way', schema: commandSchema } },
    problems: {
      ...noInstance,
      '403': 'role_not_allowed',
      '409': 'not_restorable, operation_in_flight, rolling_back',
    },
    headers: ['idempotency-key'],
  },
  {
    name: 'retire',
    method: 'post',
    path: '/v1/instances/{instance_id}/retire',
    summary: 'Ends an assistant; its volumes stay for the grace period',
    input: retireInput,
    answers: { '202': { description: 'accepted, or accepted before and under way', schema: commandSchema } },
    problems: { ...noInstance, '409': 'operation_in_flight', '410': 'instance_retired' },
    headers: ['idempotency-key'],
  },
  {
    name: 'unretire',
    method: 'post',
    path: '/v1/instances/{instance_id}/unretire',
    summary: 'Brings a retired instance back within its grace period',
    input: unretireInput,
    answers: { '202': { description: 'accepted, or accepted before and under way', schema: commandSchema } },
    problems: { ...noInstance, '409': 'not_unretirable' },
    headers: ['idempotency-key'],
  },
  {
    name: 'snapshot',
    method: 'post',
    path: '/v1/instances/{instance_id}/snapshot',
    summary: 'Takes a snapshot without stopping the assistant',
    input: snapshotInput,
    answers: { '202': { description: 'accepted, or accepted before and under way', schema: commandSchema } },
    problems: { ...noInstance, '409': 'instance_failed, operation_in_flight' },
    headers: ['idempotency-key'],
  },
  {
    name: 'listSlots',
    method: 'get',
    path: '/v1/slots',
    summary: 'Slots, by shard and ordinal; those that were set aside with the reason',
    input: listSlotsInput,
    answers: shown(listOf(slotSchema)),
    problems: {},
  },
  {
    name: 'releaseSlot',
    method: 'post',
    path: '/v1/slots/{shard_id}/{pod_index}/release',
    summary: 'Lets a quarantined slot go: its volumes are deleted, and it is free again (admin)',
    input: releaseSlotInput,
    answers: { '202': { description: 'accepted, or accepted before', schema: commandSchema } },
    problems: {
      '403': 'role_not_allowed',
      '404': 'slot_not_found',
      '409': 'not_releasable, operation_in_flight, idempotency_key_reused',
    },
    headers: ['idempotency-key'],
  },
  {
    name: 'listOperations',
    method: 'get',
    path: '/v1/operations',
    summary: 'Operations, newest first',
    input: listOperationsInput,
    answers: shown(listOf(operationSchema)),
    problems: {},
  },
  {
    name: 'getOperation',
    method: 'get',
    path: '/v1/operations/{operation_id}',
    summary: 'One operation with its timeline',
    input: operationInput,
    answers: shown(operationSchema),
    problems: noOperation,
  },
  {
    name: 'cancelOperation',
    method: 'post',
    path: '/v1/operations/{operation_id}/cancel',
    summary: 'Asks an operation to stop and to be undone',
    input: operationInput,
    answers: { '202': { description: 'noted', schema: commandSchema } },
    problems: { ...noOperation, '409': 'not_cancellable' },
  },
  {
    name: 'redriveOperation',
    method: 'post',
    path: '/v1/operations/{operation_id}/redrive',
    summary: 'Lets a parked operation go on from the step that failed',
    input: operationInput,
    answers: { '202': { description: 'it goes on', schema: commandSchema } },
    problems: { ...noOperation, '409': 'not_redrivable' },
  },
  {
    name: 'activity',
    method: 'post',
    path: '/v1/activity',
    summary: 'Tells when users were active',
    input: activityInput,
    answers: shown(activitySchema),
    problems: {},
  },
  {
    name: 'openapi',
    method: 'get',
    path: '/v1/openapi.json',
    summary: 'This document',
    input: openapiInput,
    answers: shown(z.record(z.string(), z.unknown())),
    problems: {},
  },
];
