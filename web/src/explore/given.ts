// What `lasthop view` says of a study or a paper (python/lasthop/explore.py).

import type { Source } from "../engine/types";
import type { Axis, DrawnCurve, Metric, StudyOf, Value } from "./table";

export interface TableGiven {
  file: string;
  form: "tidy" | "series";
  /** The Parquet file in base64. */
  parquet: string;
  title: string;
  about: string;
  axes: Axis[];
  metrics: Metric[];
  x: string | null;
  lines: string[];
  studies: StudyOf[];
}

export interface PaperFigure {
  id: string;
  figure: string;
  title: string | null;
  x: string | null;
  y: string[];
  curves: string[];
  /** The curves as they are drawn; empty if the axes of the studies say it. */
  drawn: DrawnCurve[];
  fixed: Record<string, Value>;
  note: string | null;
}

export interface Claim {
  id: string;
  figures: string[];
  figure: string;
  text: string;
  predicate: string;
  strength: string;
  verdict: string;
  measured: string | null;
}

export interface PaperGiven {
  number: string;
  figures: PaperFigure[];
  claims: Claim[];
  /** Titles of the alternative settings. */
  settings: Record<string, string>;
  defaults: Record<string, Value>;
  conditional: Record<string, Record<string, Value>>;
}

export interface ExploreGiven {
  kind: "explore";
  /** Where a table alone came from, and its name: from a file of this computer, or from beside the page. */
  alone?: { where: "opened" | "beside"; name: string };
  title: string;
  sources: Source[];
  tables: TableGiven[];
  paper?: PaperGiven;
}
