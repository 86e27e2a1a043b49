// Which of KWOK's stages a stack runs with.

/** KWOK lets an assistant's containers run as soon as it is scheduled. */
const AT_ONCE = 'assistant-running';
/** KWOK only makes them, as a kubelet does that has the image to pull; the double lets them run. */
const BY_THE_DOUBLE = 'assistant-creating';

/** The stages file without the one of the two that this stack does not want. @throws Error when one is missing. */
export function stagesOf(file: string, doubleRunsContainers: boolean): string {
  const stages = file.split(/^---$/m);
  const nameOf = (stage: string) => /^ {2}name: (\S+)$/m.exec(stage)?.[1];
  for (const name of [AT_ONCE, BY_THE_DOUBLE]) {
    if (!stages.some((stage) => nameOf(stage) === name)) throw new Error(`kwok-stages.yaml has no stage ${name}`);
  }
  const unwanted = doubleRunsContainers ? AT_ONCE : BY_THE_DOUBLE;
  return stages.filter((stage) => nameOf(stage) !== unwanted).join('---');
}
