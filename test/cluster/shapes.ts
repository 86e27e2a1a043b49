// What the API, the registry and the cluster answer, as far as tests look at it.
import type { KubeObject } from '../../scripts/stack/kube/client.ts';

export interface Reply<Body> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}
export interface Operation {
  readonly operation_id: string;
  readonly subject: string;
  readonly kind: string;
  readonly status: string;
  readonly step: string;
  readonly error?: { readonly code: string; readonly message: string };
}
export interface Instance {
  readonly instance_id: string;
  readonly user_id: string;
  readonly observed_state: string;
  readonly shard_id: string;
  readonly pod_index: number;
  readonly pod_dns: string;
}
export interface Route {
  readonly state: string;
  readonly instance_id: string;
  readonly token?: string;
  readonly endpoint?: { readonly url: string };
}
export interface Created {
  readonly instance: Instance;
  readonly operation: Operation;
}
export interface Pod extends KubeObject {
  readonly spec: { readonly schedulingGates?: readonly unknown[]; readonly nodeName?: string };
}
export interface Claim extends KubeObject {
  readonly spec: { readonly volumeName?: string };
}
export interface Slot {
  readonly state: string;
  readonly volumes: readonly { readonly name: string; readonly uid: string }[];
  readonly token_generation: number;
}
