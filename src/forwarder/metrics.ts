import { Counter, Gauge, Registry } from 'prom-client';

export interface Metrics {
  readonly registry: Registry;
  /** By kind and type (ADDED, MODIFIED, DELETED, BOOKMARK, ERROR, invalid). */
  readonly events: Counter<'kind' | 'type'>;
  readonly relists: Counter<'kind'>;
  /** By kind and why the watch ended: `timeout`, `expired`, `error`. */
  readonly watchRestarts: Counter<'kind' | 'why'>;
  readonly lastSuccess: Gauge<'kind'>;
  readonly messages: Counter;
  readonly observations: Counter;
  readonly sendFailures: Counter;
  readonly refused: Counter;
}

/** What is read when somebody scrapes. */
export interface Gauges {
  readonly depth: () => number;
  /** Seconds. */
  readonly oldestAge: () => number;
  readonly lostDeletions: () => number;
}

/** The forwarder's metrics in a registry of their own, so that two forwarders fit in one process. */
export function createMetrics(gauges: Gauges): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter({ name: `warren_forwarder_${name}`, help, labelNames, registers });
  const read = (name: string, help: string, value: () => number) =>
    new Gauge({
      name: `warren_forwarder_${name}`,
      help,
      registers,
      collect() {
        this.set(value());
      },
    });
  read('queue_depth', 'Observations that wait to be sent', gauges.depth);
  read('queue_oldest_seconds', 'Age of the oldest observation that has not arrived in the queue', gauges.oldestAge);
  read('lost_deletions', 'Deletions dropped because the queue was full', gauges.lostDeletions);
  return {
    registry,
    events: counter('events_total', 'Watch events', 'kind', 'type'),
    relists: counter('relists_total', 'Complete lists', 'kind'),
    watchRestarts: counter('watch_restarts_total', 'Watches that ended', 'kind', 'why'),
    lastSuccess: new Gauge({
      name: 'warren_forwarder_last_success_seconds',
      help: 'Unix time of the last list, event or bookmark',
      labelNames: ['kind'],
      registers,
    }),
    messages: counter('messages_total', 'Messages that the queue took'),
    observations: counter('observations_total', 'Observations in these messages'),
    sendFailures: counter('send_failures_total', 'Sends that failed and were repeated, or were refused'),
    refused: counter('refused_total', 'Messages dropped because the queue refuses them for good'),
  };
}
