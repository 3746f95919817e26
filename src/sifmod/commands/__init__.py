"""What each verb of the command line takes and prints."""

PROGRAM = "sifmod"
