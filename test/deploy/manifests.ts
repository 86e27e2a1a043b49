import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

/** An object of deploy/, with what roles and bindings have. */
export interface RbacObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly kind: string; readonly name: string; readonly namespace?: string }[];
}

/** All objects of a file of deploy/. @throws Error when it is no YAML. */
export function manifests(file: string): RbacObject[] {
  return parseAllDocuments(readFileSync(join('deploy', file), 'utf8')).map((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw error;
    return document.toJS() as RbacObject;
  });
}
