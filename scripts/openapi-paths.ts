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

/** Headers of answers that a caller acts on. */
export type ResponseHeader = 'ETag' | 'Cache-Control' | 'Retry-After' | 'WWW-Authenticate';

/** What succeeds with one status. */
interface ApiAnswer {
  readonly description: string;
  readonly schema?: z.ZodType;
  readonly headers?: readonly ResponseHeader[];
}

/** One operation of the API as docs/openapi.json tells of it. */
export interface ApiOperation {
  /** The function's name in serverless.yml. */
  readonly name: string;
  readonly method: 'get' | 'post';
  readonly path: string;
  readonly summary: string;
  readonly input: z.ZodObject;
  /** What succeeds, by status. */
  readonly answers: Readonly<Record<string, ApiAnswer>>;
  /** Problems beyond 400, 401, 413, 500 and 503, which every operation may answer. */
  readonly problems: Readonly<Record<string, string>>;
  readonly headers?: readonly ('if-none-match' | 'idempotency-key')[];
  /** Headers that every problem of it has, beside those that its codes bring. */
  readonly problemHeaders?: readonly ResponseHeader[];
}

const listOf = (item: z.ZodType) =>
  z.object({
    items: z.array(item),
    next_cursor: z.string().optional().meta({ description: 'absent on the last page' }),
  });

const shown = (schema: z.ZodType) => ({ '200': { description: 'what was asked for', schema } });
/** An instance on its way says when to ask again; one that rests or runs does not. */
const ROUTE_HEADERS = ['ETag', 'Cache-Control', 'Retry-After'] as const;
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
      '200': {
        description: 'the route of a live instance, whatever its state',
        schema: routeSchema,
        headers: ROUTE_HEADERS,
      },
      '304': { description: 'the ETag still holds', headers: ROUTE_HEADERS },
    },
    problems: { '404': 'no_instance', '410': 'instance_retired' },
    headers: ['if-none-match'],
    problemHeaders: ['Cache-Control'],
  },
  {
    name: 'wake',
    method: 'post',
    path: '/v1/wake',
    summary: 'Gets a user’s assistant to answer, waiting for it if asked',
    input: wakeInput,
    answers: {
      '200': { description: 'it is active', schema: routeSchema, headers: ['Cache-Control'] },
      '202': {
        description: 'it is on its way; ask again after Retry-After',
        schema: routeSchema,
        headers: ['Cache-Control', 'Retry-After'],
      },
    },
    problems: {
      '404': 'no_instance',
      '409':
        'staged, instance_failed, not_restorable, operation_in_flight, rolling_back, capacity_exhausted, idempotency_key_reused',
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
    problems: {
      '409': 'operation_in_flight, rolling_back, instance_failed, idempotency_key_reused',
      '503': 'capacity_exhausted',
    },
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
    problems: { ...noInstance, '409': 'not_stageable, operation_in_flight, rolling_back, idempotency_key_reused' },
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
      '409': 'not_restorable, operation_in_flight, rolling_back, idempotency_key_reused',
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
    problems: { ...noInstance, '409': 'operation_in_flight, idempotency_key_reused', '410': 'instance_retired' },
    headers: ['idempotency-key'],
  },
  {
    name: 'unretire',
    method: 'post',
    path: '/v1/instances/{instance_id}/unretire',
    summary: 'Brings a retired instance back within its grace period',
    input: unretireInput,
    answers: { '202': { description: 'accepted, or accepted before and under way', schema: commandSchema } },
    problems: { ...noInstance, '409': 'not_unretirable, operation_in_flight, idempotency_key_reused' },
    headers: ['idempotency-key'],
  },
  {
    name: 'snapshot',
    method: 'post',
    path: '/v1/instances/{instance_id}/snapshot',
    summary: 'Takes a snapshot without stopping the assistant',
    input: snapshotInput,
    answers: { '202': { description: 'accepted, or accepted before and under way', schema: commandSchema } },
    problems: {
      ...noInstance,
      '409': 'staged, instance_failed, operation_in_flight, rolling_back, idempotency_key_reused',
      '410': 'instance_retired',
    },
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
    problems: { ...noOperation, '409': 'not_cancellable, rolling_back, idempotency_key_reused' },
    headers: ['idempotency-key'],
  },
  {
    name: 'redriveOperation',
    method: 'post',
    path: '/v1/operations/{operation_id}/redrive',
    summary: 'Lets a parked operation go on from the step that failed',
    input: operationInput,
    answers: { '202': { description: 'it goes on', schema: commandSchema } },
    problems: { ...noOperation, '409': 'not_redrivable, operation_in_flight, idempotency_key_reused' },
    headers: ['idempotency-key'],
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
    answers: {
      '200': {
        description: 'what was asked for',
        schema: z.record(z.string(), z.unknown()),
        headers: ['Cache-Control'],
      },
    },
    problems: {},
  },
];
