//! The command line: perftest's letters, defaults and limits, and ours.
