/** The fields of Kubernetes objects that are read here. Everything may be absent: an API server leaves out what is empty. */
interface RawMeta {
  readonly name?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export interface RawObject {
  readonly metadata?: RawMeta;
}

export interface RawContainerState {
  readonly waiting?: { readonly reason?: string; readonly message?: string };
  readonly terminated?: { readonly reason?: string; readonly exitCode?: number };
}

export interface RawContainerStatus {
  readonly name?: string;
  readonly state?: RawContainerState;
  readonly lastState?: RawContainerState;
}

interface RawCondition {
  readonly type?: string;
  readonly status?: string;
  readonly reason?: string;
  readonly message?: string;
}

export interface RawPod extends RawObject {
  readonly spec?: { readonly nodeName?: string; readonly schedulingGates?: readonly { readonly name?: string }[] };
  readonly status?: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly conditions?: readonly RawCondition[];
    readonly initContainerStatuses?: readonly RawContainerStatus[];
    readonly containerStatuses?: readonly RawContainerStatus[];
  };
}

export interface RawStatefulSet extends RawObject {
  readonly spec?: { readonly replicas?: number };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly updateRevision?: string;
  };
}

/** The body of an error, and the object of an ERROR event. */
export interface RawStatus {
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: { readonly retryAfterSeconds?: number };
}

export interface RawList {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
  readonly items?: readonly RawObject[];
}

export interface RawEvent {
  readonly type?: string;
  readonly object?: RawObject & RawStatus;
}
