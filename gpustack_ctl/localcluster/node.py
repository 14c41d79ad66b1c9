"""stub"""


class LocalNode: ...
