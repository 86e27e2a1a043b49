import type { OperationKind } from './states.ts';

/** What only so many operations may have at once: a create and a restore start a pod, a backup moves an archive, a recycle makes disks. */
export const PLACES = ['create', 'restore', 'backup', 'recycle'] as const;
export type Place = (typeof PLACES)[number];

/** How many operations hold each place at most. */
export type PlaceLimits = Readonly<Record<Place, number>>;

/** The place that an operation needs before its first step; null when it needs none. */
export function placeOf(kind: OperationKind, input: Readonly<Record<string, unknown>>): Place | null {
  switch (kind) {
    case 'create':
    case 'restore':
    case 'recycle':
      return kind;
    case 'snapshot':
      return 'backup';
    case 'stage':
      return input['backup'] === 'skip' ? null : 'backup';
    case 'retire':
      return typeof input['waive_backup'] === 'string' && input['waive_backup'] !== '' ? null : 'backup';
    case 'purge':
    case 'rebind':
    case 'warm_up':
    case 'grow':
      return null;
  }
}

/** The key of an operation that waits for its place. */
export const placeKey = (place: Place): string => `place:${place}`;

/**
 * Parses `restore:50,backup:20`; what is not named keeps its default.
 * @throws Error that says what is wrong.
 */
export function parsePlaces(text: string, defaults: PlaceLimits): PlaceLimits {
  const limits: Record<Place, number> = { ...defaults };
  for (const part of text.split(',').filter((each) => each.trim() !== '')) {
    const [name, value] = part.split(':').map((each) => each.trim());
    const place = PLACES.find((each) => each === name);
    if (place === undefined) throw new Error(`${name} is no place: use ${PLACES.join(', ')}`);
    if (value === undefined || !/^[1-9]\d{0,5}$/.test(value)) throw new Error(`${name} must be a whole number above 0`);
    limits[place] = Number(value);
  }
  return limits;
}
