import { type Evidence, type Finding, type InstanceRow, type KubeThing, podNameOf, slotKey } from '../evidence.ts';
import { instanceOf, isGated } from '../timeline.ts';

const IN_FLIGHT = new Set(['pending', 'running', 'waiting', 'undoing', 'queued']);

/** Invariant 8, once there is nothing left to do: every command has ended, and what parked says why. */
export function ended({ registry }: Evidence): Finding[] {
  return registry.operations.flatMap(({ operation_id: id, kind, subject, status, step, error }) => {
    const what = `${kind} ${id} of ${subject}`;
    if (IN_FLIGHT.has(status)) return [{ rule: 'ended', message: `${what} is still ${status} at step ${step}` }];
    if (status === 'parked' && (error?.message ?? '') === '')
      return [{ rule: 'ended', message: `${what} parked without a reason` }];
    return [];
  });
}

/** At rest registry, cluster and discovery say the same: active ⇔ that pod Ready with those labels ⇔ listed, and no more. */
export function agreement(evidence: Evidence): Finding[] {
  const { registry, cluster, discovery } = evidence;
  const found: Finding[] = [];
  const say = (message: string) => found.push({ rule: 'agreement', message });
  const pods = new Map(cluster.pods.map((pod) => [pod.metadata.name, pod]));
  const hosts = Map.groupBy(discovery, ({ ip }) => ip);
  const active = registry.instances.filter((row) => row.observed_state === 'active' && row.holds_slot);
  const slots = new Map(registry.slots.map((slot) => [slotKey(slot), slot]));
  for (const row of active) {
    const slot = slots.get(slotKey(row));
    if (slot?.state !== 'held' || slot.instance_id !== row.instance_id)
      say(`${row.instance_id} is active without its slot`);
    if (slot?.pod_uid !== row.pod_uid)
      say(`${row.instance_id} runs as pod ${row.pod_uid}, its slot says ${slot?.pod_uid}`);
    for (const what of podFaults(row, pods.get(podNameOf(slotKey(row)))))
      say(`${row.instance_id} is active, but its pod ${what}`);
    const [host, ...more] = hosts.get(row.pod_dns ?? '') ?? [];
    if (host === undefined) say(`${row.instance_id} is active, but not listed in discovery`);
    else if (host.metadata['instance_id'] !== row.instance_id || host.metadata['user_id'] !== row.user_id) {
      say(`${row.instance_id} is active, but ${host.ip} is listed as ${JSON.stringify(host.metadata)}`);
    }
    if (more.length > 0) say(`${row.pod_dns} is listed ${more.length + 1} times`);
  }
  const listed = new Set(active.map(({ pod_dns: dns }) => dns));
  for (const { ip, metadata } of discovery) {
    if (!listed.has(ip)) say(`discovery lists ${ip} as ${JSON.stringify(metadata)}, which is not active`);
  }
  return [...found, ...openPods(evidence)];
}

/** A pod that runs, runs for the instance that holds its slot. */
function openPods({ registry, cluster }: Evidence): Finding[] {
  const slots = new Map(registry.slots.map((slot) => [podNameOf(slotKey(slot)), slot]));
  // A parked retire may have started a staged assistant for its final snapshot.
  const parked = new Set(registry.operations.filter(({ status }) => status === 'parked').map(({ subject }) => subject));
  const resting = new Map(
    registry.instances
      .filter((row) => ['staged', 'retired'].includes(row.observed_state) && !parked.has(row.instance_id))
      .map((row) => [row.instance_id, row.observed_state]),
  );
  return cluster.pods.flatMap((pod) => {
    if (isGated(pod) || pod.metadata.deletionTimestamp !== undefined) return [];
    const slot = slots.get(pod.metadata.name);
    if (slot?.state === 'quarantined') return [];
    const instance = instanceOf(pod);
    const rests = resting.get(instance ?? '');
    if (slot?.state === 'held' && slot.instance_id === instance) {
      if (rests === undefined) return [];
      return [{ rule: 'agreement', message: `pod ${pod.metadata.name} runs although ${instance} is ${rests}` }];
    }
    const message = `pod ${pod.metadata.name} runs for ${instance ?? 'nobody'}, its slot is ${slot?.state} by ${slot?.instance_id ?? 'nobody'}`;
    return [{ rule: 'agreement', message }];
  });
}

function podFaults(row: InstanceRow, pod: KubeThing | undefined): string[] {
  if (pod === undefined) return ['is not there'];
  const found: string[] = [];
  if (pod.metadata.uid !== row.pod_uid) found.push(`has uid ${pod.metadata.uid}, not ${row.pod_uid}`);
  if (instanceOf(pod) !== row.instance_id) found.push(`is labelled for ${instanceOf(pod) ?? 'nobody'}`);
  if (pod.metadata.annotations?.['warren.dev/user-id'] !== row.user_id) found.push('does not name its user');
  if (isGated(pod)) found.push('is gated');
  if (!pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True'))
    found.push('is not Ready');
  return found;
}
