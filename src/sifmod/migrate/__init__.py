"""What an easyconfig of LUMI's, or a recipe or module of SHPC, becomes here."""
