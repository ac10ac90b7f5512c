// Globals of the pages: the scripts that define them are plain ones, so that a report can hold them inline.

/** Observable Plot, which has no types here. */
declare var Plot: any;
/** The charts of crates/dance-page/assets. comparisons.js adds to what charts.js defines. */
declare var Charts: any;
