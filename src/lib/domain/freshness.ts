import { LABEL_INSTANCE } from './names.ts';

/** The part of a claim that freshness is judged by. */
export interface ClaimFacts {
  readonly name: string;
  readonly uid: string;
  readonly phase: string;
  readonly volume_name: string | null;
  readonly terminating: boolean;
  readonly labels: Readonly<Record<string, string>>;
}

/** A claim as the slot recorded it; `volume_name` once an instance was active on it. */
export interface RecordedClaim {
  readonly name: string;
  readonly uid: string;
  readonly volume_name?: string;
}

/**
 * `foreign`: the claim shows signs of somebody else; neither bind nor recycle may go on, a person must look.
 * `unfit`: it is not the claim that was recorded, or is going away; bind must not go on.
 * `unsettled`: it is the recorded claim, and Kubernetes has not finished binding it; another look may find it fit.
 */
export interface ClaimFault {
  readonly grade: 'foreign' | 'unfit' | 'unsettled';
  readonly message: string;
}

/** Nobody was ever on it: Pending, no volume, no owner's label, not going away. */
export function freshFault(claim: ClaimFacts): ClaimFault | null {
  const owner = claim.labels[LABEL_INSTANCE];
  if (owner !== undefined) return foreign(`claim ${claim.name} carries the label of instance ${owner}`);
  if (claim.volume_name !== null || claim.phase !== 'Pending') {
    return foreign(
      `claim ${claim.name} is ${claim.phase} on volume ${claim.volume_name ?? 'none'} where it should be fresh`,
    );
  }
  if (claim.terminating) return unfit(`claim ${claim.name} is being deleted`);
  return null;
}

/**
 * Whether bind may open a gate over this claim (invariant 2). Not adopted yet: fresh, or already labelled for this
 * very instance by an earlier try. Adopted: Bound to the recorded volume and labelled.
 */
export function bindFault(
  claim: ClaimFacts | null,
  recorded: RecordedClaim,
  instanceId: string,
  adopted: boolean,
): ClaimFault | null {
  if (claim === null) return unfit(`claim ${recorded.name} is not there`);
  const owner = claim.labels[LABEL_INSTANCE];
  if (owner !== undefined && owner !== instanceId) {
    return foreign(`claim ${claim.name} carries the label of instance ${owner}`);
  }
  if (claim.uid !== recorded.uid) {
    return unfit(`claim ${claim.name} has uid ${claim.uid}, the slot recorded ${recorded.uid}`);
  }
  if (claim.terminating) return unfit(`claim ${claim.name} is being deleted`);
  if (!adopted) return owner === instanceId ? null : freshFault(claim);
  return boundFault(claim, recorded, owner);
}

/** Whether a claim is what the instance became active on: same uid, Bound, not going away, and the recorded volume. */
export function activeFault(claim: ClaimFacts | null, recorded: RecordedClaim, instanceId: string): ClaimFault | null {
  if (claim === null) return unfit(`claim ${recorded.name} is not there`);
  if (claim.uid !== recorded.uid) {
    return unfit(`claim ${claim.name} was swapped: uid ${claim.uid}, the slot recorded ${recorded.uid}`);
  }
  const owner = claim.labels[LABEL_INSTANCE];
  if (owner !== instanceId) return foreign(`claim ${claim.name} carries the label of instance ${owner ?? 'nobody'}`);
  if (claim.terminating) return unfit(`claim ${claim.name} is being deleted`);
  // The controller writes the phase last; when the API server is away just then, a pod can be Ready before it.
  if (claim.phase === 'Pending') return { grade: 'unsettled', message: `claim ${claim.name} is not Bound yet` };
  return boundFault(claim, recorded, owner);
}

function boundFault(claim: ClaimFacts, recorded: RecordedClaim, owner: string | undefined): ClaimFault | null {
  if (claim.phase !== 'Bound' || claim.volume_name === null) {
    return unfit(`claim ${claim.name} is ${claim.phase} where it should be Bound`);
  }
  if (recorded.volume_name !== undefined && claim.volume_name !== recorded.volume_name) {
    return foreign(`claim ${claim.name} is on volume ${claim.volume_name}, the slot recorded ${recorded.volume_name}`);
  }
  if (owner === undefined) return foreign(`claim ${claim.name} lost its owner's label`);
  return null;
}

const foreign = (message: string): ClaimFault => ({ grade: 'foreign', message });
const unfit = (message: string): ClaimFault => ({ grade: 'unfit', message });
