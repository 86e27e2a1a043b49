import { FakeObjectStore } from '../fakes/object-store.ts';
import { describeObjectStore } from './object-store.ts';

describeObjectStore('the fake', {
  setup: async () => new FakeObjectStore(() => Date.now()),
  teardown: async () => {},
});
