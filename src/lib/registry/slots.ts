import { keyOf, type Page, pageOf } from '../api/cursor.ts';
import type { SlotShape } from '../api/schemas.ts';
import type { SlotState } from '../domain/states.ts';
import type { Sql } from '../ports.ts';
import type { SlotRow } from '../saga/rows.ts';

export interface SlotFilter {
  readonly state?: SlotState | undefined;
  readonly shard?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** `07/13`; text of this form orders as the list does once it is taken apart. */
const SLOT_KEY = /^\d{2,6}\/\d{1,6}$/;

/** By shard and ordinal. @throws WarrenError invalid_request for a cursor of another list. */
export async function listSlots(sql: Sql, filter: SlotFilter): Promise<Page<SlotShape>> {
  const [shard, index] = keyOf(filter.cursor, SLOT_KEY)?.split('/') ?? [];
  const rows = await sql.query<SlotRow>(
    `select * from slot
      where ($1::text is null or state = $1)
        and ($2::text is null or shard_id = $2)
        and ($3::text is null or (shard_id, pod_index) > ($3, $4::int))
      order by shard_id, pod_index limit $5`,
    [filter.state ?? null, filter.shard ?? null, shard ?? null, index ?? null, filter.limit + 1],
  );
  return pageOf(rows, filter.limit, ({ shard_id, pod_index }) => `${shard_id}/${pod_index}`, slotShape);
}

function slotShape(row: SlotRow): SlotShape {
  return {
    shard_id: row.shard_id,
    pod_index: row.pod_index,
    state: row.state,
    instance_id: row.instance_id,
    reason: row.reason,
    pod_uid: row.pod_uid,
    adopted_at: row.adopted_at?.toISOString() ?? null,
    volumes: (row.volumes ?? []).map(({ template, name, uid, volume_name = null }) => ({
      template,
      name,
      uid,
      volume_name,
    })),
  };
}
