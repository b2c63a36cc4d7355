"""Data directories of ZooKeeper: transaction logs, snapshots, and the tree that a server restores of them."""
