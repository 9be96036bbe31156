// Where there is no Core ML this module is empty, so that the package builds on Linux.
