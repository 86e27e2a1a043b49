import type * as z from 'zod';
import { type FieldFault, WarrenError } from '../errors.ts';
import { describeFaults } from './event.ts';
import { pathOf } from './plain.ts';

/** RFC 9457 with Warren's stable `code`. */
export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly instance_id?: string;
  readonly operation_id?: string;
  readonly errors?: readonly FieldFault[];
}

/** `status` differs from the code's own only where the design names another for one endpoint. */
export function problemOf(error: WarrenError, status: number = error.status): Problem {
  const { instance_id, operation_id, errors } = error.extra;
  return {
    type: `urn:warren:problem:${error.code}`,
    title: error.title,
    status,
    code: error.code,
    detail: error.message,
    ...(instance_id !== undefined && { instance_id }),
    ...(operation_id !== undefined && { operation_id }),
    ...(errors !== undefined && { errors }),
  };
}

/** What a schema found, in Warren's words. */
export function invalidRequest(issues: readonly z.core.$ZodIssue[]): WarrenError {
  const errors = issues.flatMap(faultsOf);
  return new WarrenError('invalid_request', describeFaults(errors), { errors });
}

function faultsOf(issue: z.core.$ZodIssue): FieldFault[] {
  const path = issue.path.reduce<string>(pathOf, '');
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => ({ path: pathOf(path, key), message: 'is not a field of this request' }));
    case 'invalid_type':
      if (issue.input === undefined) return [{ path, message: `is required (${issue.expected})` }];
      return [{ path, message: `must be of type ${issue.expected}` }];
    case 'invalid_value':
      return [{ path, message: `must be one of ${issue.values.map(String).join(', ')}` }];
    default:
      return [{ path, message: issue.message }];
  }
}
