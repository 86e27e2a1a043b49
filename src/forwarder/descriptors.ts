import type { Observation } from '../lib/domain/observation.ts';
import { condensePod, condenseStatefulSet } from './condense.ts';
import type { RawObject, RawPod, RawStatefulSet } from './raw.ts';

/** All the forwarder needs to know of a kind: where it is listed and how it is condensed. Another kind is one more. */
export interface Descriptor {
  readonly kind: Observation['kind'];
  /** API path and resource, around the namespace. */
  readonly api: string;
  readonly resource: string;
  readonly selector: string;
  /** @throws TypeError when the object lacks its name, uid or resourceVersion. */
  readonly observe: (raw: RawObject) => Observation;
}

const SHARDS = 'app=qwenpaw';

export const DESCRIPTORS: readonly Descriptor[] = [
  {
    kind: 'Pod',
    api: '/api/v1',
    resource: 'pods',
    selector: SHARDS,
    observe: (raw) => ({ ...base(raw), kind: 'Pod', condensed: condensePod(raw as RawPod) }),
  },
  {
    kind: 'StatefulSet',
    api: '/apis/apps/v1',
    resource: 'statefulsets',
    selector: SHARDS,
    observe: (raw) => ({ ...base(raw), kind: 'StatefulSet', condensed: condenseStatefulSet(raw as RawStatefulSet) }),
  },
];

function base(raw: RawObject) {
  const { name, namespace, uid, resourceVersion } = raw.metadata ?? {};
  if (name === undefined || uid === undefined || !/^\d+$/.test(resourceVersion ?? '')) {
    throw new TypeError(`an object without name, uid or resourceVersion: ${JSON.stringify(raw.metadata)}`);
  }
  return { name, namespace: namespace ?? '', uid, resource_version: resourceVersion ?? '', deleted: false };
}

/** The path of a list or watch of this kind, with these query parameters. */
export function pathOf(descriptor: Descriptor, namespace: string, query: Readonly<Record<string, string>>): string {
  const parameters = new URLSearchParams({ labelSelector: descriptor.selector, ...query });
  return `${descriptor.api}/namespaces/${encodeURIComponent(namespace)}/${descriptor.resource}?${parameters}`;
}
