"""What a cluster is given so that the program may run in it, made from what the program itself says and does.

The files under deploy/policies and deploy/rbac are written from here; none of them is edited by hand.
"""
