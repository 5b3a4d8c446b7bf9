/** The graph of a report: pictures that were laid out when it was written stand in for the kernel that would draw others. */
import type { GraphParameters, GraphStage, GraphUpdate, NodeDetails } from '../contract';
import type { Geometry } from './geometry';
import type { Layouter } from './layouter';

/** The graph as it runs with one more scope open, or one of its stages. */
interface Look {
  opened: string;
  stage: number;
  before: boolean;
  update: GraphUpdate;
  geometry: Geometry;
}

export interface Kept {
  looks: Look[];
  details: Record<string, NodeDetails>;
  stages: GraphStage[];
}

export class Album implements Layouter {
  constructor(private _kept: Kept) {}

  /** The picture that is asked for, or the nearest that is kept: of several scopes the one that was opened last. */
  answer({ stage = -1, before = 0, opened = [], shown = '', chosen = '' }: GraphParameters): GraphUpdate {
    const { looks, details, stages } = this._kept;
    const side = looks.filter(one => one.stage === stage && one.before === !!before);
    const holds = (one: Look) => one.update.picture!.nodes.some(node => node.id === shown);
    const newest = side.find(one => one.opened && one.opened === opened[opened.length - 1]);
    this._look = newest ?? (shown ? side.find(holds) : side[0]) ?? this._look;
    return { ...this._look.update, stages, details: Object.hasOwn(details, chosen) ? details[chosen] : null };
  }

  async layout(): Promise<Geometry> {
    return this._look.geometry;
  }

  cancel(): void {}

  dispose(): void {}

  private _look: Look = this._kept.looks[0];
}
