import type { Evidence, Finding } from '../evidence.ts';

/** Invariant 10: what a snapshot's row says stands in the bucket, read now, and history tells that it was matched. */
export function snapshots({ registry, objects, history }: Evidence): Finding[] {
  const found: Finding[] = [];
  const rows = new Map(registry.snapshots.map((row) => [row.object_key, row]));
  const say = (message: string) => found.push({ rule: 'snapshot', message });
  for (const { instance_id: id, snapshot_ref: ref } of registry.instances) {
    if (ref === null) continue;
    if (rows.get(ref)?.instance_id !== id) say(`${id} names ${ref}, which is no snapshot of it`);
  }
  for (const { instance_id: id, object_key: key, size_bytes: size, sha256 } of registry.snapshots) {
    const object = objects.get(key);
    if (object === undefined) say(`${key} of ${id} is not in the bucket`);
    else if (object.size !== size) say(`${key} of ${id} has ${object.size} bytes in the bucket, recorded are ${size}`);
    else if (object.sha256 !== sha256) say(`${key} of ${id} has another SHA-256 in the bucket than recorded`);
    const told = history.some(
      ({ subject, action, after }) =>
        subject === id &&
        action === 'snapshot_taken' &&
        after?.['snapshot_ref'] === key &&
        after['size_bytes'] === size &&
        after['sha256'] === sha256,
    );
    if (!told) say(`history does not tell that ${key} of ${id} was taken with that size and SHA-256`);
  }
  return found;
}

/** A token that a slot had before opens nothing any more: neither an earlier owner's, nor that of a rebuild's filling. */
export function refusals({ answers }: Evidence): Finding[] {
  return answers.flatMap(({ slot, token, status }) => {
    // Nobody answers (0): nothing was let in.
    if (status === 401 || status === 0) return [];
    return [{ rule: 'old_token', message: `slot ${slot} answers ${status} to its old token, of ${token}` }];
  });
}
